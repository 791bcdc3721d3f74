import { ContentWriter } from '../content/content-writer.ts';
import { type GraphUser, type Kind, type Listed, removedItem } from '../kinds/kind.ts';
import { fetchContents } from './contents.ts';
import { recordPage } from './record-page.ts';
import { holdJob, type Run, within } from './run.ts';

const AT_ONCE = 50;

interface DueRow {
  id: string;
  container: string;
  round: number;
  metadata: Record<string, unknown>;
}

/**
 * Fetches what earlier runs could not fetch: a list of changes does not name it again. Whole lists do, and there is
 * nothing to do for them.
 */
export async function retryDue(run: Run, kind: Kind, user: GraphUser): Promise<void> {
  if (!kind.hasDelta) return;
  const writer = new ContentWriter(run.parts, run);
  for (let after = ''; ; ) {
    const rows = await within(run, (tx) =>
      tx('c2c_items')
        .where({ config_id: run.configId, user_id: user.id, kind: kind.name, is_due: true })
        .whereNull('deleted_at')
        .where('external_id', '>', after)
        .orderBy('external_id')
        .limit(AT_ONCE)
        .select<DueRow[]>({
          id: 'external_id',
          container: 'container_id',
          round: 'seen_round',
          metadata: 'metadata',
        }),
    );
    const items = rows.map(
      ({ id, metadata }): Listed => ({ ...removedItem(id), isRemoved: false, metadata }),
    );
    const contents = await fetchContents({ graph: run.graph, user, kind, writer }, items);
    const gone = contents.flatMap((one) => ('failure' in one && one.failure.status === 404 ? [one.id] : []));
    for (const { id, container, round } of rows) {
      const fetched = contents.filter((one) => one.id === id);
      const listed = items.filter((one) => one.id === id && !gone.includes(id));
      const at = { kind, user, container: { id: container }, cursor: { id: run.jobId, round } };
      await recordPage(run, at, { listed, contents: fetched, failed: 0, links: undefined });
    }
    if (gone.length > 0) {
      await within(run, async (tx) => {
        await holdJob(tx, run);
        await tx('c2c_items')
          .where({ config_id: run.configId, user_id: user.id, kind: kind.name })
          .whereIn('external_id', gone)
          .update({ deleted_at: tx.fn.now(), is_due: false });
      });
    }
    after = rows.at(-1)?.id ?? '';
    if (rows.length < AT_ONCE) return;
  }
}
