import type { Tx } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import type { SealedColumn } from '../../platform/secrets/reseal.ts';
import { SealBrokenError, sealContext, type Sealer } from '../../platform/secrets/sealed.ts';
import type { CommandSecrets } from '../../protocol/index.ts';

/** Secrets that the payloads of commands refer to (docs/decisions/secrets-by-reference.md). */

export const SEALED_COMMAND_SECRET: SealedColumn = { table: 'command_secrets', column: 'value', id: 'id' };

const contextOf = (rowId: string) => sealContext('command_secrets', 'value', rowId);

/** Values by reference, and what seals them. */
export interface SecretsToSeal {
  values: CommandSecrets;
  sealer: Sealer;
}

/** Each command gets its own copy, which ends with it. */
export async function insertSecrets(
  tx: Tx,
  commands: readonly { id: string; orgId: string }[],
  { values, sealer }: SecretsToSeal,
): Promise<void> {
  const rows = commands.flatMap(({ id: commandId, orgId }) =>
    Object.entries(values).map(([ref, value]) => {
      const id = newId();
      return { id, orgId, commandId, ref, sealed: sealer.seal(value, contextOf(id)) };
    }),
  );
  await tx.raw(
    `insert into command_secrets (id, org_id, command_id, ref, value)
    select * from unnest(:ids::uuid[], :orgIds::uuid[], :commandIds::uuid[], :refs::uuid[], :values::text[])`,
    {
      ids: rows.map(({ id }) => id),
      orgIds: rows.map(({ orgId }) => orgId),
      commandIds: rows.map(({ commandId }) => commandId),
      refs: rows.map(({ ref }) => ref),
      values: rows.map(({ sealed }) => sealed),
    },
  );
}

/**
 * The secrets of commands that are about to be sent, by command and reference. Those of a command of which one does not
 * open are left out altogether.
 */
export async function openSecrets(
  tx: Tx,
  sealer: Sealer,
  commandIds: readonly string[],
): Promise<Map<string, CommandSecrets>> {
  const { rows } = await tx.raw(
    'select id, command_id, ref, value from command_secrets where command_id = any(?::uuid[])',
    [[...commandIds]],
  );
  const opened = new Map<string, CommandSecrets>();
  const broken = new Set<string>();
  for (const row of rows as { id: string; command_id: string; ref: string; value: string }[]) {
    const secrets = opened.get(row.command_id) ?? {};
    opened.set(row.command_id, secrets);
    try {
      secrets[row.ref] = sealer.open(row.value, contextOf(row.id)).text;
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error;
      broken.add(row.command_id);
    }
  }
  for (const commandId of broken) opened.delete(commandId);
  return opened;
}
