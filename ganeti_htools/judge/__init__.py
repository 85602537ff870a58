"""The judge of plans: written apart from the engine so that both can disagree, from rows only, slow."""
