import type { Db } from '../../../platform/db/pool.ts';
import { withSystem } from '../../../platform/db/transaction.ts';
import type { ReleaseKeys } from '../registry/release-keys.ts';
import type { AgentRelease } from '../registry/release.model.ts';

export type IsTrusted = (release: AgentRelease) => boolean;

/** Says whether the signatures of releases hold, in requests of tenants, who cannot read the keys. */
export class ReleaseTrust {
  readonly #db: Db;
  readonly #keys: ReleaseKeys;
  #known: { ids: ReadonlySet<string>; isTrusted: IsTrusted } | undefined;

  /** @param db  another pool than that of requests: a request holds a connection of its own while it waits here */
  constructor(db: Db, keys: ReleaseKeys) {
    this.#db = db;
    this.#keys = keys;
  }

  /** Reads the keys again only where a release has one that is not known yet, as after a rotation. */
  async verifier(releases: readonly Pick<AgentRelease, 'keyId'>[]): Promise<IsTrusted> {
    const known = this.#known;
    if (known !== undefined && releases.every(({ keyId }) => known.ids.has(keyId))) return known.isTrusted;
    this.#known = await withSystem(this.#db, 'read the keys that sign releases', async (tx) => ({
      ids: new Set((await this.#keys.publicKeys(tx)).keys()),
      isTrusted: await this.#keys.verifier(tx),
    }));
    return this.#known.isTrusted;
  }
}
