import { clock } from '../../../../clock.ts';
import type { Tx } from '../../../../platform/db/transaction.ts';
import { COMMANDS } from '../../../../protocol/index.ts';
import { type WorkEnd, workEnds } from '../../../backup/index.ts';
import { type EndedCommand, endsOfCommands } from '../../../commands/index.ts';
import type { ActionNow } from '../decisions/decide.ts';
import type { RecoveryAction } from '../execution.model.ts';

/** How the work of an execution stands, by what other features and the devices have recorded. */

export interface DeviceNow {
  id: string;
  orgId: string;
  name: string;
  osType: 'windows' | 'macos' | 'linux';
  capabilities: string[];
  hasConnected: boolean;
  /** Since when it is away; null while it is connected. */
  awaySince: Date | null;
}

export async function devicesNow(
  tx: Tx,
  orgId: string,
  ids: readonly string[],
): Promise<Map<string, DeviceNow>> {
  const { rows } = await tx.raw<{ rows: DeviceNow[] }>(
    `select d.id, d.org_id as "orgId", coalesce(nullif(d.display_name, ''), d.hostname) as name,
      d.os_type as "osType", d.capabilities, coalesce(p.epoch > 0, false) as "hasConnected",
      case when p.state = 'connected' then null else coalesce(p.since, d.created_at) end as "awaySince"
    from devices d left join device_presence p on p.device_id = d.id and p.org_id = d.org_id
    where d.org_id = ? and d.id = any(?::uuid[]) and d.condition not in ('pending', 'decommissioned')`,
    [orgId, [...ids]],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** What an action becomes when its work has ended. */
export type ActionEnd = Pick<
  RecoveryAction,
  'state' | 'message' | 'result' | 'errorCode' | 'errorMessage' | 'finishedAt'
>;

/** By the id of the action. Those that still run are not in it. @param all  of the execution */
export async function endedActions(tx: Tx, all: readonly RecoveryAction[]): Promise<Map<string, ActionEnd>> {
  const running = all.filter(({ state }) => state === 'running');
  if (running.length === 0) return new Map();
  const restores = running.filter(({ kind }) => kind === 'restore' || kind === 'backup');
  const works = await workEnds(tx, {
    restores: restores.flatMap(({ restoreId }) => restoreId ?? []),
    machines: restores.flatMap(({ vmRestoreId }) => vmRestoreId ?? []),
    jobs: restores.flatMap(({ backupJobId }) => backupJobId ?? []),
  });
  const asked = running.filter(({ kind }) => kind === 'check' || kind === 'discard');
  const commands = await endsOfCommands(
    tx,
    asked.flatMap(({ commandId }) => commandId ?? []),
  );
  const ends = new Map<string, ActionEnd>();
  for (const action of restores) {
    const end = works.get(action.restoreId ?? action.vmRestoreId ?? action.backupJobId ?? '');
    if (end === undefined) continue;
    ends.set(action.id, isAbsent(action, end) ? endOfAbsent(action, all) : endOfWork(end));
  }
  for (const action of asked) {
    const end = commands.get(action.commandId ?? '');
    if (end === undefined) continue;
    const ended = endOfCommand(end);
    // Even where somebody has cancelled it, what it was to take down is still there.
    const isLeft = action.kind === 'discard' && ended.state === 'cancelled';
    ends.set(action.id, isLeft ? { ...ended, state: 'failed' } : ended);
  }
  return ends;
}

/** A path of the configuration that the device did not have when it was backed up. */
const isAbsent = ({ spec }: RecoveryAction, end: WorkEnd): boolean =>
  end.outcome === 'failed' && end.code === 'PATH_MISSING' && spec.does === 'files' && spec.isOptional;

/** It does no harm, unless nothing at all is restored. */
function endOfAbsent({ id, stepId }: RecoveryAction, all: readonly RecoveryAction[]): ActionEnd {
  const others = all.filter((each) => each.stepId === stepId && each.kind === 'restore' && each.id !== id);
  const message = 'The snapshot does not contain it.';
  const isAll = others.every(({ result }) => result?.isMissing === true);
  return isAll ? badEnd('failed', 'PATH_MISSING', message) : goodEnd(message, { isMissing: true });
}

function endOfWork(end: WorkEnd): ActionEnd {
  if (end.outcome !== 'succeeded') return badEnd(end.outcome, end.code, end.message);
  const { message, folder, forwards, snapshotId } = end;
  const result = {
    ...(folder === undefined ? {} : { folder }),
    ...(forwards === undefined ? {} : { forwards }),
    ...(snapshotId === undefined ? {} : { snapshotId }),
  };
  return goodEnd(message, result);
}

function endOfCommand(end: EndedCommand | 'gone'): ActionEnd {
  if (end === 'gone') return badEnd('failed', 'GONE', 'The record of this work was removed.');
  const { status, error, type, output } = end;
  if (status !== 'succeeded') {
    const code = error?.code ?? SILENT[status]?.[0] ?? status.toUpperCase();
    const message = error?.message ?? SILENT[status]?.[1] ?? 'It failed.';
    return badEnd(status === 'cancelled' ? 'cancelled' : 'failed', code, message);
  }
  if (type === 'recovery.check') {
    const found = COMMANDS['recovery.check'].output.safeParse(output).data;
    if (found?.passed === true) return goodEnd(found.message);
    return badEnd('failed', 'CHECK_FAILED', found?.message ?? 'The result of the device could not be read.');
  }
  if (type === 'script.run') {
    const exitCode = COMMANDS['script.run'].output.safeParse(output).data?.exitCode;
    const message =
      exitCode == null ? 'It was ended by a signal.' : `It ended with the exit code ${exitCode}.`;
    return exitCode === 0 ? goodEnd(message) : badEnd('failed', 'CHECK_FAILED', message);
  }
  return goodEnd('It was taken down.');
}

const SILENT: Readonly<Record<string, readonly [code: string, message: string]>> = {
  expired: ['DEVICE_OFFLINE', 'The device did not connect in time.'],
  timed_out: ['TIMED_OUT', 'The device has not reported the result in time.'],
  cancelled: ['CANCELLED', 'It was cancelled.'],
};

const goodEnd = (message: string, result: RecoveryAction['result'] = null): ActionEnd => ({
  state: 'succeeded',
  message,
  result,
  errorCode: null,
  errorMessage: null,
  finishedAt: clock.date(),
});

export const badEnd = (state: 'failed' | 'cancelled', code: string, message: string): ActionEnd => ({
  state,
  message: null,
  result: null,
  errorCode: code.slice(0, 64),
  errorMessage: message.slice(0, 2000),
  finishedAt: clock.date(),
});

/** A device that is away for so long is not waited for. */
const AWAY_MS = 5 * 60_000;
/** Presence is written in batches, so a device that has just come back still looks as if it were away. */
const SETTLED_MS = 3000;
/** One that was asked to stop, or to take something down, has to react sooner. */
const AWAY_WHEN_ASKED_MS = 10_000;
const SILENT_WHEN_ASKED_MS = 60_000;

/** The action as the decision sees it. */
export function asNow(action: RecoveryAction, device: DeviceNow | undefined, now: Date): ActionNow {
  const { id, kind, phase, state, undoes, cancelRequestedAt } = action;
  const isCancelRequested = cancelRequestedAt !== null;
  const isLost = state === 'running' && isLostAt(action, device, now);
  return { id, kind, phase, state, undoes, isCancelRequested, isLost };
}

function isLostAt(
  { phase, startedAt, cancelRequestedAt }: RecoveryAction,
  device: DeviceNow | undefined,
  now: Date,
): boolean {
  if (device === undefined) return true;
  const awayMs = device.awaySince === null ? 0 : now.getTime() - device.awaySince.getTime();
  const askedAt = phase === 'cleanup' ? startedAt : cancelRequestedAt;
  const sinceMs = now.getTime() - ((askedAt ?? startedAt)?.getTime() ?? 0);
  if (askedAt !== null && sinceMs >= SILENT_WHEN_ASKED_MS) return true;
  return sinceMs >= SETTLED_MS && awayMs >= (askedAt === null ? AWAY_MS : AWAY_WHEN_ASKED_MS);
}
