"""The measured load: its sources, and the profiles made from them."""
