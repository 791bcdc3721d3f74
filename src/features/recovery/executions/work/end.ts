import type { Tx } from '../../../../platform/db/transaction.ts';
import { followRecoveryAlert } from '../../plans/recovery-alert.ts';
import { type RecoveryAction, RecoveryExecution, type RecoveryStep } from '../execution.model.ts';
import { reportOf } from '../decisions/report.ts';

interface Ended {
  execution: RecoveryExecution;
  steps: readonly RecoveryStep[];
  actions: readonly RecoveryAction[];
  status: 'completed' | 'failed' | 'aborted';
  now: Date;
}

/** Ends an execution: its report, and its alert. */
export async function endExecution(tx: Tx, { execution, steps, actions, status, now }: Ended): Promise<void> {
  const { executionType, abortRequestedAt, rtoTargetMinutes, rpoTargetMinutes, orgId } = execution;
  const startedAt = execution.startedAt ?? execution.createdAt;
  const withWork = new Set(actions.flatMap(({ phase, stepId }) => (phase === 'main' ? [stepId] : [])));
  const left = actions.filter(isLeftover);
  const report = reportOf({
    executionType,
    startedAt,
    finishedAt: now,
    abortRequestedAt,
    rtoTargetMinutes,
    rpoTargetMinutes,
    steps: steps.map(({ id, state, recoveryPointAt, readyAt }) => ({
      state,
      recoveryPointAt,
      readyAt,
      hasWork: withWork.has(id),
    })),
    leftovers: left.length,
  });
  await RecoveryExecution.query(tx)
    .findById(execution.id)
    .patch({
      status,
      phase: null,
      stepsDone: steps.length,
      startedAt,
      finishedAt: now,
      report,
      haltReason: status === 'completed' ? null : haltReason(steps, left, abortRequestedAt),
    });
  await followRecoveryAlert(tx, orgId, { hasFailed: status === 'failed' });
}

export const isLeftover = ({ phase, state }: Pick<RecoveryAction, 'phase' | 'state'>): boolean =>
  phase === 'cleanup' && (state === 'running' || state === 'failed' || state === 'cancelled');

function haltReason(
  steps: readonly RecoveryStep[],
  left: readonly RecoveryAction[],
  abortRequestedAt: Date | null,
): string {
  const failed = steps.find(({ state }) => state === 'failed');
  const parts = [
    ...(abortRequestedAt === null ? [] : ['It was aborted.']),
    ...(failed === undefined
      ? []
      : [`${failed.deviceName}: ${failed.errorMessage ?? 'the step has failed.'}`]),
    ...(left.length === 0 ? [] : [`${left.length} of what it had started could not be taken down yet.`]),
  ];
  return parts.join(' ').slice(0, 1000);
}
