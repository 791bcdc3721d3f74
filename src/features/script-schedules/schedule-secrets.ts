import { isDeepStrictEqual } from 'node:util';
import { clock } from '../../clock.ts';
import type { Context } from '../../platform/context.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError, invalid, invalidFields } from '../../platform/errors.ts';
import { newId } from '../../platform/ids.ts';
import { type Encryptor, SealBrokenError, sealContext } from '../../platform/secrets/sealed.ts';
import type { SealedColumn } from '../../platform/secrets/secrets.queries.ts';
import { SECRETS_MAX_LENGTH } from '../script-runs/index.ts';
import { missingSecrets, type Script } from '../scripts/index.ts';
import { ScheduleSecret, type ScriptSchedule } from './schedule.model.ts';
import { type PauseReason, type ScriptSchedulePatch, SECRETS_MAX } from './schedule.schema.ts';

/**
 * The secrets of a schedule. Whoever has set one knows it. Everybody else may let the schedule run as it is, and may not
 * decide what becomes of the secret: which script gets it, on which devices, and beside which other values
 * (docs/decisions/script-schedules.md).
 */

export const SEALED_SCHEDULE_SECRET: SealedColumn = {
  table: 'script_schedule_secrets',
  column: 'value',
  id: 'id',
};

const contextOf = (id: string) => sealContext('script_schedule_secrets', 'value', id);

/** What a change leaves of the secrets of a schedule. */
export interface SecretsChange {
  kept: readonly ScheduleSecret[];
  set: Readonly<Record<string, string>>;
}

export const secretsOf = async (tx: Tx, scheduleId: string): Promise<ScheduleSecret[]> =>
  ScheduleSecret.query(tx).where('schedule_id', scheduleId).orderBy('name');

/** Windows ignores the case of the names of variables. */
const keyOf = (name: string) => name.toLowerCase();

/** @param given  texts set or replace secrets, and null removes them */
export function changeOfSecrets(
  held: readonly ScheduleSecret[],
  given: NonNullable<ScriptSchedulePatch['secrets']> = {},
): SecretsChange {
  const isHeld = new Set(held.map(({ name }) => keyOf(name)));
  const set: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    if (value !== null) set[name] = value;
    else if (!isHeld.has(keyOf(name))) throw invalid(`body.secrets.${name}`, 'is not set');
  }
  const named = new Set(Object.keys(given).map(keyOf));
  return { kept: held.filter(({ name }) => !named.has(keyOf(name))), set };
}

export const namesAfter = ({ kept, set }: SecretsChange): string[] => [
  ...kept.map(({ name }) => name),
  ...Object.keys(set),
];

/** What decides about what becomes of the secrets of a schedule. */
export type Use = Pick<ScriptSchedule, 'scriptId' | 'target' | 'parameters' | 'secretsFor'>;

/**
 * Refuses a change by which secrets would be used in another way than the people who have set them have chosen. A value
 * beside a secret may be the address to which the script sends it, so parameters and other secrets are part of its use.
 */
export function assertMayChangeUse(
  { caller }: Pick<Context, 'caller'>,
  { kept, set }: SecretsChange,
  { before, after, hasRemoved }: { before: Use; after: Use; hasRemoved: boolean },
): void {
  const isSame = !hasRemoved && Object.keys(set).length === 0 && isDeepStrictEqual(before, after);
  if (isSame) return;
  const unknown = kept.filter(({ setBy }) => setBy === null || setBy !== caller.userId);
  if (unknown.length === 0) return;
  throw invalidFields(
    unknown.map(({ name }) => ({
      path: `body.secrets.${name}`,
      message: 'was set by another person: with this change give it again, or remove it with null',
    })),
  );
}

/** The fingerprint of the script that may have the secrets after a change. */
export function secretsForAfter(
  change: SecretsChange,
  {
    script,
    scriptFingerprint,
    before,
  }: {
    script: Script;
    scriptFingerprint: string | undefined;
    /** Undefined for a new schedule. */
    before?: Pick<ScriptSchedule, 'scriptId' | 'secretsFor'>;
  },
): string | null {
  if (scriptFingerprint !== undefined && scriptFingerprint !== script.fingerprint) {
    throw new AppError('conflict', 'The script was changed since you have read it. Read it again.');
  }
  if (namesAfter(change).length === 0) return null;
  // Whoever gives them now, or chooses another script, gives them to the script as it is.
  const isGivenNow =
    change.kept.length === 0 || scriptFingerprint !== undefined || script.id !== before?.scriptId;
  return isGivenNow ? script.fingerprint : (before?.secretsFor ?? null);
}

/** Stores what a change has set, and removes what it does not keep. */
export async function storeSecrets(
  ctx: Context,
  { id: scheduleId, partnerId, orgId }: Pick<ScriptSchedule, 'id' | 'partnerId' | 'orgId'>,
  change: SecretsChange,
  encryptor: Encryptor,
): Promise<void> {
  assertFew(change, encryptor);
  const { kept, set } = change;
  await ScheduleSecret.query(ctx.tx)
    .where('schedule_id', scheduleId)
    .whereNotIn(
      'id',
      kept.map(({ id }) => id),
    )
    .delete();
  const rows = Object.entries(set).map(([name, value]) => {
    const id = newId();
    return {
      id,
      scheduleId,
      partnerId,
      orgId,
      name,
      value: encryptor.seal(value, contextOf(id)),
      setBy: ctx.caller.userId,
      setAt: clock.date(),
    };
  });
  if (rows.length > 0) await ScheduleSecret.query(ctx.tx).insert(rows);
}

/** Each device of a run gets its own sealed copy of all of them. */
function assertFew(change: SecretsChange, encryptor: Encryptor): void {
  if (Object.keys(change.set).length === 0) return;
  if (namesAfter(change).length > SECRETS_MAX) {
    throw invalid('body.secrets', `must be at most ${SECRETS_MAX} together with those that are set`);
  }
  // Those that do not open count for nothing: the schedule is paused until they are given again.
  const values = [
    ...Object.values(change.set),
    ...change.kept.map((secret) => open(encryptor, secret) ?? ''),
  ];
  if (values.join('').length > SECRETS_MAX_LENGTH) {
    throw invalid(
      'body.secrets',
      `must have at most ${SECRETS_MAX_LENGTH} characters together with those that are set`,
    );
  }
}

/** Undefined if it does not open: its key is lost, or the row was moved. */
function open(encryptor: Encryptor, { id, value }: ScheduleSecret): string | undefined {
  try {
    return encryptor.open(value, contextOf(id)).text;
  } catch (error) {
    if (error instanceof SealBrokenError) return undefined;
    throw error;
  }
}

/** Whether the secrets may not be handed to the script as it is now. */
export const isForAnother = (
  { secretsFor }: Pick<ScriptSchedule, 'secretsFor'>,
  fingerprint: string,
): boolean => secretsFor !== null && secretsFor !== fingerprint;

/** What a run is given, by name, or why it must not begin. */
export async function secretsForRun(
  tx: Tx,
  schedule: ScriptSchedule,
  script: Script,
  encryptor: Encryptor,
): Promise<{ secrets: Record<string, string> } | PauseReason> {
  if (isForAnother(schedule, script.fingerprint)) return 'script_changed';
  const held = await secretsOf(tx, schedule.id);
  const names = held.map(({ name }) => name);
  if (missingSecrets(script.parameters, names).length > 0) return 'secrets_missing';
  const secrets: Record<string, string> = {};
  for (const secret of held) {
    const text = open(encryptor, secret);
    if (text === undefined) return 'secrets_unreadable';
    secrets[secret.name] = text;
  }
  return { secrets };
}
