"""Speed: ours and other libraries' on the same maths, alternating in one run."""
