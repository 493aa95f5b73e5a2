"""What security costs: TLS beside plaintext, logins by SCRAM, a broker's rules of access."""
