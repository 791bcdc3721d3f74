/**
 * How long a device waits before it tries a release again that it could not install. Device and server follow the same
 * rule, so that they never contradict each other about the next attempt.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const LASTING_WAITS_MS = [HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS];

/**
 * @param failure.count  how often the release has failed in a row, this failure included
 * @param failure.isTemporary  it may pass by itself, such as a full disk: the first one is repeated with the next heartbeat
 */
export function waitAfterFailure({ count, isTemporary }: { count: number; isTemporary: boolean }): number {
  if (isTemporary) return count === 1 ? 0 : Math.min(HOUR_MS, MINUTE_MS * 2 ** Math.min(count - 2, 10));
  return LASTING_WAITS_MS[Math.min(count, LASTING_WAITS_MS.length) - 1] ?? HOUR_MS;
}

const LASTING = [
  'CHECKSUM_MISMATCH',
  'SIZE_MISMATCH',
  'SIGNATURE_INVALID',
  'SIGNATURE_MISSING',
  'UNKNOWN_KEY',
  'UNKNOWN_COMPONENT',
  'WRONG_COMPONENT',
  'WRONG_PLATFORM',
  'DOWNGRADE',
  'INVALID_OFFER',
  'INSECURE_URL',
  'TOO_LARGE',
];

/** Whether a code that a device reports names a fault of the release, which does not pass by itself. */
export const isLastingFailure = (code: string): boolean => LASTING.includes(code);
