/** When a rollout has to stop by itself (docs/decisions/agent-rollouts.md). */

export interface HaltWhen {
  /** The share of failures among the devices that have finished. */
  failedPercent: number;
  /** How long a device may be unheard of after its upgrade. */
  silentMinutes: number;
  /** The share of failures counts once so many devices have finished. */
  minDevices: number;
}

/** How the upgrades of a rollout ended since it was started or resumed after a halt. Each device counts once. */
export interface Outcomes {
  healthy: number;
  failed: number;
  /** The longest sequence of devices that failed one after another, with none between them that did not. */
  failuresInARow: number;
  /** Devices whose upgrade has begun and not ended. */
  underWay: number;
}

/** Devices that could have been heard of for `silentMinutes`, and those of them that were not. */
export interface Silence {
  /** Devices that run the new version, or should. */
  upgraded: number;
  upgradedSilent: number;
  /** Devices of the same organizations that the rollout has not touched. */
  others: number;
  othersSilent: number;
}

export type HaltReason = 'failed_in_a_row' | 'failed_share' | 'silent';

/** One failure is no evidence, whatever its share. */
const FAILED_MIN = 2;
const FAILED_IN_A_ROW = 3;

export function failureReason(
  outcomes: Outcomes,
  { failedPercent, minDevices }: HaltWhen,
  { isSoaked }: { isSoaked: boolean },
): HaltReason | undefined {
  const { healthy, failed, failuresInARow, underWay } = outcomes;
  if (failuresInARow >= FAILED_IN_A_ROW) return 'failed_in_a_row';
  const finished = healthy + failed;
  // A small wave never has `minDevices`, so its share counts when nothing more is expected.
  const isEvidence = finished >= minDevices || underWay === 0 || isSoaked;
  const isShareReached = failed * 100 >= failedPercent * finished;
  return isEvidence && failed >= FAILED_MIN && isShareReached ? 'failed_share' : undefined;
}

/** Beyond what chance and closed laptops explain: so many devices, and so many percent of the upgraded ones. */
const SILENT_MIN = 2;
const SILENT_MIN_SHARE = 0.03;
/** A sample differs from what is expected by more than three standard deviations once in 700 times. */
const DEVIATIONS = 3;
/**
 * The share of the others is taken as if three more of them had been watched and had fallen silent. Among many it changes
 * nothing; with few to compare with, nearly all of the upgraded devices have to be silent, and with none nothing is said.
 */
const UNKNOWN_OTHERS = 3;

export function isSilent({ upgraded, upgradedSilent, others, othersSilent }: Silence): boolean {
  const usual = (othersSilent + UNKNOWN_OTHERS) / (others + UNKNOWN_OTHERS);
  const expected = upgraded * usual;
  const deviation = Math.sqrt(expected * (1 - usual));
  return (
    upgradedSilent - expected >= Math.max(SILENT_MIN, upgraded * SILENT_MIN_SHARE, DEVIATIONS * deviation)
  );
}
