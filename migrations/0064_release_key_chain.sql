-- When a key that signs releases is replaced, it signs the next one, so that devices that trust it can trust that one too
-- (docs/decisions/releases.md). Both are null for the first key, and for one that begins a new chain. Keys are never deleted.
alter table release_signing_keys
  add column signed_by uuid,
  -- Ed25519 over the canonical JSON of the id, the public key and its purpose; base64url.
  add column signature varchar(100);
