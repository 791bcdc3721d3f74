import type { ExecutionType } from '../../plans/plan.schema.ts';
import type { RecoveryReport, StepState } from '../execution.schema.ts';

/** What an execution has reached, against what its plan demands. */

interface ReportedStep {
  state: StepState;
  /** False: the source had failed over before. */
  hasWork: boolean;
  recoveryPointAt: Date | null;
  readyAt: Date | null;
}

interface Reported {
  executionType: ExecutionType;
  startedAt: Date;
  finishedAt: Date;
  abortRequestedAt: Date | null;
  rtoTargetMinutes: number | null;
  rpoTargetMinutes: number | null;
  steps: readonly ReportedStep[];
  leftovers: number;
}

export function reportOf({
  executionType,
  startedAt,
  finishedAt,
  abortRequestedAt,
  rtoTargetMinutes,
  rpoTargetMinutes,
  steps,
  leftovers,
}: Reported): RecoveryReport {
  const areAllReady = steps.length > 0 && steps.every(({ state }) => state === 'completed');
  const readyMs = steps.flatMap(({ readyAt }) => (readyAt === null ? [] : [readyAt.getTime()]));
  const rtoSeconds =
    areAllReady && readyMs.length > 0 ? secondsBetween(startedAt, new Date(Math.max(...readyMs))) : null;
  const pointMs = steps.flatMap(({ recoveryPointAt }) =>
    recoveryPointAt === null ? [] : [recoveryPointAt.getTime()],
  );
  const rpoSeconds =
    executionType === 'failback' || pointMs.length === 0
      ? null
      : secondsBetween(new Date(Math.min(...pointMs)), startedAt);
  // A device without a snapshot has lost everything, whatever the age of the others.
  const hasLostAll = steps.some(({ hasWork, recoveryPointAt }) => hasWork && recoveryPointAt === null);
  return {
    rtoSeconds,
    rpoSeconds,
    rtoTargetMinutes,
    rpoTargetMinutes,
    rtoMet: metBy(rtoTargetMinutes, rtoSeconds, !areAllReady && abortRequestedAt === null),
    rpoMet: executionType === 'failback' ? null : metBy(rpoTargetMinutes, rpoSeconds, hasLostAll),
    abortSeconds:
      abortRequestedAt === null ? null : (finishedAt.getTime() - abortRequestedAt.getTime()) / 1000,
    leftovers,
  };
}

export const secondsBetween = (from: Date, to: Date): number =>
  Math.max(0, Math.round((to.getTime() - from.getTime()) / 1000));

function metBy(targetMinutes: number | null, seconds: number | null, isMissed: boolean): boolean | null {
  if (targetMinutes === null) return null;
  if (isMissed) return false;
  return seconds === null ? null : seconds <= targetMinutes * 60;
}
