import type { BackgroundPart } from '../../platform/close-stack.ts';
import type { Db } from '../../platform/db/pool.ts';
import { withSystem } from '../../platform/db/transaction.ts';
import type { Logger } from '../../platform/logger.ts';
import { addMissingSearchFacts, selectOrganizationIds } from './device-search.queries.ts';

/** So many devices get their facts in one transaction, for which a change of one of them may have to wait. */
const AT_ONCE = 500;

/**
 * Makes devices found by their facts that were enrolled before those were stored. Triggers keep the facts of all others,
 * so as a rule this finds nothing to do. Servers that start together do it together, which does no harm.
 */
export class FillDeviceSearch implements BackgroundPart {
  readonly #parts: { db: Db; log: Logger };
  #isClosing = false;
  #filling: Promise<void> = Promise.resolve();

  constructor(parts: { db: Db; log: Logger }) {
    this.#parts = parts;
  }

  start(): void {
    this.#filling = this.#fill().catch((error: unknown) => {
      // The next start goes on with what is missing.
      if (!this.#isClosing) this.#parts.log.error({ err: error }, 'devices.search_not_filled');
    });
  }

  /** Waits until all devices that were enrolled before the start are found by their facts. */
  settle(): Promise<void> {
    return this.#filling;
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#filling;
  }

  async #fill(): Promise<void> {
    const { db, log } = this.#parts;
    const orgIds = await withSystem(
      db,
      'find organizations whose devices are searched',
      selectOrganizationIds,
    );
    let devices = 0;
    for (const orgId of orgIds) {
      let added = AT_ONCE;
      while (added === AT_ONCE && !this.#isClosing) {
        added = await withSystem(db, 'store what devices are found by', (tx) =>
          addMissingSearchFacts(tx, orgId, AT_ONCE),
        );
        devices += added;
      }
      if (this.#isClosing) return;
    }
    if (devices > 0) log.info({ devices }, 'devices.search_filled');
  }
}
