import { newId } from '../../../src/platform/ids.ts';
import type { TestApp } from '../test-app.ts';
import { asOwner } from '../test-postgres.ts';

/** Registers versions of the agent and the watchdog that nobody downloads: what a pin may name. */
export async function registerVersions({ database }: TestApp, ...versions: string[]): Promise<void> {
  const [key] = await asOwner<{ id: string }>(
    database.ownerUrl,
    `with made as (
       insert into release_signing_keys (id, public_key, sealed_private_key, retired_at)
       values ($1, 'none', 'none', now()) returning id)
     select id from made`,
    [newId()],
  );
  for (const version of versions) {
    for (const component of ['agent', 'watchdog']) {
      await asOwner(
        database.ownerUrl,
        `insert into agent_releases (id, version, component, os, architecture, source, size, sha256, signature, key_id, is_prerelease)
         values ($1, $2, $3, 'macos', 'arm64', 'local', 1, repeat('a', 64), 'none', $4, false)
         on conflict do nothing`,
        [newId(), version, component, key?.id],
      );
    }
  }
}
