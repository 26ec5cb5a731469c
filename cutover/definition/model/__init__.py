"""The parts of a definition, as people write them: frozen values that check themselves."""
