"""SASL, the client's side: an exchange of tokens for each mechanism, which the handshake runs."""
