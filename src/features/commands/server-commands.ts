import type { DeviceHub } from '../../hub/index.ts';
import type { JobChange } from '../../hub/ports.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { newId } from '../../platform/ids.ts';
import type { CommandPayload, CommandStatus, DurableCommandType } from '../../protocol/index.ts';
import { insertCommands, requestCancel } from './command.queries.ts';
import { insertSecrets, type SecretsToSeal } from './command-secrets.ts';
import { JOB_COLUMNS, type JobRow, toJobChange } from './job-updates.ts';

/** Commands that the server makes for a purpose of its own, such as those of backups, also without a request. */

export interface ServerCommand<T extends DurableCommandType> {
  type: T;
  payload: CommandPayload<T>;
  /** How long the command waits to be sent. */
  ttlSeconds: number;
  timeoutSeconds: number;
  secrets: SecretsToSeal;
  /** The person who wanted it, where there is one. */
  createdBy: string | null;
}

export interface AddedCommand {
  id: string;
  deviceId: string;
  change: JobChange;
}

/** Adds a command. After the commit, hand what is returned to `announceCommands`. */
export async function addServerCommand<T extends DurableCommandType>(
  tx: Tx,
  device: { id: string; orgId: string },
  { type, payload, ttlSeconds, timeoutSeconds, secrets, createdBy }: ServerCommand<T>,
): Promise<AddedCommand> {
  const id = newId();
  const work = { type, payload, ttlSeconds, timeoutSeconds, createdBy, execution: undefined };
  await insertCommands(tx, { ids: [id], devices: [device], ...work });
  await insertSecrets(tx, [{ id, orgId: device.orgId }], secrets);
  return { id, deviceId: device.id, change: await changeOf(tx, id) };
}

/** Tells dashboards of the commands, and the devices that there is work. */
export function announceCommands(hub: DeviceHub, commands: readonly AddedCommand[]): void {
  hub.jobsChanged(commands.map(({ change }) => change));
  for (const { deviceId } of commands) hub.deliver(deviceId);
}

/**
 * Asks for the end of a command of the server. One that was not sent ends at once. After the commit, `announce` must be
 * called.
 */
export async function cancelServerCommand(
  tx: Tx,
  id: string,
  hub: DeviceHub,
): Promise<{ hasEnded: boolean; announce: () => void }> {
  if (!(await requestCancel(tx, id))) return { hasEnded: false, announce: () => {} };
  const change = await changeOf(tx, id);
  const { deviceId, state } = change.update;
  const hasEnded = state === 'cancelled';
  return {
    hasEnded,
    announce() {
      if (hasEnded) hub.jobsChanged([change]);
      else if (deviceId !== undefined) hub.cancelCommand(deviceId, id);
    },
  };
}

/** How a command has ended, with what came after its end. */
export interface EndedCommand {
  type: string;
  status: Extract<CommandStatus, 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'expired'>;
  payload: unknown;
  output: unknown;
  error: { code: string; message: string } | null;
  lateResult: unknown;
  startedAt: Date | null;
  finishedAt: Date;
}

/** `undefined` while the command is open, and where it does not exist any more. */
export async function findEndOfCommand(tx: Tx, id: string): Promise<EndedCommand | undefined> {
  return tx('commands').where({ id }).whereNotNull('finished_at').first<EndedCommand | undefined>({
    type: 'type',
    status: 'status',
    payload: 'payload',
    output: 'output',
    error: 'error',
    lateResult: 'late_result',
    startedAt: 'started_at',
    finishedAt: 'finished_at',
  });
}

/** The same for many, by id: `gone` where a command does not exist any more. Open ones are not in the map. */
export async function endsOfCommands(
  tx: Tx,
  ids: readonly string[],
): Promise<Map<string, EndedCommand | 'gone'>> {
  if (ids.length === 0) return new Map();
  const rows = await tx('commands')
    .whereIn('id', [...ids])
    .select<(Omit<EndedCommand, 'finishedAt'> & { id: string; finishedAt: Date | null })[]>({
      id: 'id',
      type: 'type',
      status: 'status',
      payload: 'payload',
      output: 'output',
      error: 'error',
      lateResult: 'late_result',
      startedAt: 'started_at',
      finishedAt: 'finished_at',
    });
  const found = new Map(rows.map(({ id, ...row }) => [id, row]));
  const ends = new Map<string, EndedCommand | 'gone'>();
  for (const id of ids) {
    const row = found.get(id);
    if (row === undefined) ends.set(id, 'gone');
    else if (row.finishedAt !== null) ends.set(id, { ...row, finishedAt: row.finishedAt });
  }
  return ends;
}

async function changeOf(tx: Tx, id: string): Promise<JobChange> {
  const { rows } = await tx.raw<{ rows: JobRow[] }>(`select ${JOB_COLUMNS} from commands c where c.id = ?`, [
    id,
  ]);
  const [row] = rows;
  if (row === undefined) throw new Error(`the command ${id} is not there`);
  return toJobChange(row);
}
