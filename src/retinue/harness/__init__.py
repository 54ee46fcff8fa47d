"""What agents need for long work: a workspace, a shell, skills, a list of what is to do, and helpers."""

from .harness import Harness as Harness, open_folder as open_folder, wants_workspace as wants_workspace
