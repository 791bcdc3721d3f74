import type { Container, GraphUser, Kind } from '../kinds/kind.ts';
import { removeUnseen } from './record-page.ts';
import { type Run, within } from './run.ts';

/** A folder that is not listed any more is gone, and with it the items that were in it last. */
export async function forgetContainers(
  run: Run,
  { kind, user, containers }: { kind: Kind; user: GraphUser; containers: readonly Container[] },
): Promise<void> {
  const key = { config_id: run.configId, user_id: user.id, kind: kind.name };
  const gone = await within(run, (tx) =>
    tx('c2c_cursors')
      .where(key)
      .whereNotIn(
        'container_id',
        containers.map(({ id }) => id),
      )
      .select<{ id: string; container: string }[]>({ id: 'id', container: 'container_id' }),
  );
  for (const { id, container } of gone) {
    await removeUnseen(run, { kind, user, container: { id: container }, cursor: { id, round: -1 } });
    await within(run, (tx) => tx('c2c_cursors').where('id', id).delete());
  }
}
