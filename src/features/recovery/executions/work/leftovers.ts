import { clock } from '../../../../clock.ts';
import { type Tx, withSystem } from '../../../../platform/db/transaction.ts';
import { type AddedCommand, announceCommands } from '../../../commands/index.ts';
import type { AdvanceParts } from './advance.ts';
import { isLeftover } from './end.ts';
import { RecoveryAction, RecoveryExecution, RecoveryStep } from '../execution.model.ts';
import { devicesNow, endedActions } from './observe.ts';
import { startAction } from './start-action.ts';

/**
 * What could not be taken down before its execution ended, because its device was away or failed at it. The command waits
 * for the device; where it was lost or has failed, it is given again.
 */

const AT_ONCE = 200;
/** After this time the device, or what was on it, is taken to be gone for good. */
const FOLLOWED_FOR = `interval '30 days'`;
const AGAIN_AFTER = `interval '10 minutes'`;

type FollowParts = Omit<AdvanceParts, 'backupStore'>;

export async function followLeftovers(parts: FollowParts): Promise<void> {
  const executions = await withSystem(
    parts.db,
    'find executions of recovery plans with something to take down',
    async (tx) => {
      const { rows } = await tx.raw<{ rows: { id: string }[] }>(
        `select distinct e.id from dr_actions a
        join dr_steps s on s.org_id = a.org_id and s.id = a.step_id
        join dr_executions e on e.org_id = s.org_id and e.id = s.execution_id
        where a.phase = 'cleanup' and a.state in ('running', 'failed')
          and e.finished_at > now() - ${FOLLOWED_FOR} limit ${AT_ONCE}`,
      );
      return rows;
    },
  );
  for (const { id } of executions) {
    const commands = await withSystem(
      parts.db,
      'take down what an execution of a recovery plan has left',
      (tx) => followOne(tx, parts, id),
    ).catch((error: unknown) => {
      parts.log.error({ err: error, recoveryExecutionId: id }, 'recovery.leftovers_failed');
      return [];
    });
    if (commands.length > 0) announceCommands(parts.hub, commands);
  }
}

async function followOne(tx: Tx, parts: FollowParts, id: string): Promise<AddedCommand[]> {
  const execution = await RecoveryExecution.query(tx).findById(id).forNoKeyUpdate().skipLocked();
  if (execution?.report == null) return [];
  const { orgId } = execution;
  const steps = RecoveryStep.query(tx).where('execution_id', id).select('id');
  const actions = await RecoveryAction.query(tx)
    .where('org_id', orgId)
    .whereIn('step_id', steps)
    .select('*', tx.raw(`coalesce(finished_at < now() - ${AGAIN_AFTER}, false) as is_due`))
    .castTo<(RecoveryAction & { isDue: boolean })[]>();
  const running = actions.filter(({ phase, state }) => phase === 'cleanup' && state === 'running');
  const ends = await endedActions(tx, actions);
  for (const action of running) {
    const end = ends.get(action.id);
    if (end === undefined) continue;
    await RecoveryAction.query(tx).findById(action.id).patch(end);
    Object.assign(action, end);
  }
  const commands: AddedCommand[] = [];
  const due = actions.filter(({ phase, state, isDue }) => phase === 'cleanup' && state === 'failed' && isDue);
  const devices = await devicesNow(
    tx,
    orgId,
    due.map(({ deviceId }) => deviceId),
  );
  for (const action of due) {
    const device = devices.get(action.deviceId);
    if (device === undefined) continue;
    const siblings = actions.filter(({ stepId }) => stepId === action.stepId);
    const started = await startAction(tx, { execution, action, siblings, device }, parts);
    if (typeof started === 'string') continue;
    const again = { state: 'running', startedAt: clock.date(), finishedAt: null } as const;
    await RecoveryAction.query(tx)
      .findById(action.id)
      .patch({ ...again, errorCode: null, errorMessage: null, ...started.changes });
    Object.assign(action, again);
    if (started.command !== undefined) commands.push(started.command);
  }
  const leftovers = actions.filter(isLeftover).length;
  if (leftovers !== execution.report.leftovers) {
    await execution.$query(tx).patch({ report: { ...execution.report, leftovers } });
  }
  return commands;
}
