"""The client's side of SASL: each mechanism has an exchange of tokens, which the handshake runs."""
