miles = 26.2188
km = miles * 1.609344
minutes = 4 * 60 + 15
final_result = f"{km:.3f} km at {minutes / km:.2f} min/km"
# '42.195 km at 6.04 min/km'
