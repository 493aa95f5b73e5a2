"""The cost of security: TLS beside plaintext, logins by SCRAM, a broker's access rules."""
