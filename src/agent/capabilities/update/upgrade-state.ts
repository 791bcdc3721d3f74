import { clock } from '../../../clock.ts';
import {
  readAttempt,
  readTrial,
  failuresOf,
  nextTryAt,
  readJournal,
} from '../../os/releases/upgrade-files.ts';
import { readOfferState } from './offer.ts';

interface Release {
  component: string;
  version: string;
}

/** The state of this machine's upgrades, read from the files that the agent and its watchdog keep; for people. */
export interface UpgradeState {
  /** Whether offered releases are installed automatically. */
  automatic: boolean;
  /** The offer of the last heartbeat. */
  offer: Release | null;
  /** `step`: what was done last, as the journal of upgrades names it. */
  attempt: (Release & { attemptId: string; step: string | null; stepAt: string | null }) | null;
  trial: (Release & { starts: number }) | null;
  /**
   * `release` is unknown if an earlier agent has failed. `nextTryAt` is absent if nothing is installed automatically,
   * or if another release is offered. Until then the server offers nothing, so a missing offer says nothing about it.
   */
  lastFailure: {
    release: Release | null;
    code: string;
    message: string;
    at: string;
    nextTryAt: string | null;
  } | null;
}

export async function readUpgradeState(
  dataDir: string,
  automatic: boolean,
  now = clock.now(),
): Promise<UpgradeState> {
  const [offer, attempt, trial, failures, journal] = await Promise.all([
    readOfferState(dataDir),
    readAttempt(dataDir),
    readTrial(dataDir),
    failuresOf(dataDir),
    readJournal(dataDir),
  ]);
  const step = journal.findLast(({ attemptId }) => attemptId === attempt?.attemptId);
  const failure = failures.reduce<(typeof failures)[number] | undefined>(
    (latest, each) => (latest === undefined || each.at >= latest.at ? each : latest),
    undefined,
  );
  const { component, version } = failure ?? {};
  const failed = component === undefined || version === undefined ? null : { component, version };
  const isReplaced =
    offer !== undefined &&
    failed !== null &&
    (offer.component !== failed.component || offer.version !== failed.version);
  return {
    automatic,
    offer: offer === undefined ? null : { component: offer.component, version: offer.version },
    attempt:
      attempt === undefined
        ? null
        : {
            component: attempt.component,
            version: attempt.version,
            attemptId: attempt.attemptId,
            step: step?.step ?? null,
            stepAt: step?.at ?? null,
          },
    trial:
      trial === undefined
        ? null
        : { component: trial.component, version: trial.version, starts: trial.starts },
    lastFailure:
      failure === undefined
        ? null
        : {
            release: failed,
            code: failure.code,
            message: failure.message,
            at: new Date(failure.at).toISOString(),
            nextTryAt: automatic && !isReplaced ? new Date(nextTryAt(failure, now)).toISOString() : null,
          },
  };
}

/** The same as sentences. Pure. */
export function upgradeSentences(
  { automatic, offer, attempt, trial, lastFailure }: UpgradeState,
  now = clock.now(),
): string[] {
  const named = ({ component, version }: Release) => `${component} ${version}`;
  return [
    offer === null ? 'The server offers no other release.' : `The server offers the ${named(offer)}.`,
    ...(automatic ? [] : ['Automatic upgrades are off.']),
    ...(attempt === null
      ? []
      : [
          `The upgrade of the ${attempt.component} to ${attempt.version} is running${attempt.step === null ? '' : `: ${attempt.step} at ${attempt.stepAt}`}.`,
        ]),
    ...(trial === null ? [] : [`The ${named(trial)} is on trial.`]),
    ...(lastFailure === null
      ? []
      : [failureSentence(lastFailure, { automatic, isOffered: offer !== null, now })]),
  ];
}

function failureSentence(
  { release, code, message, at, nextTryAt: next }: NonNullable<UpgradeState['lastFailure']>,
  { automatic, isOffered, now }: { automatic: boolean; isOffered: boolean; now: number },
): string {
  const what = release === null ? 'a release' : `the ${release.component} ${release.version}`;
  const happened = `The last upgrade that failed was to ${what}, at ${at} (${code}): ${message}`;
  if (next === null) {
    return `${happened} ${automatic ? 'The server offers another release now.' : 'It is not retried automatically.'}`;
  }
  const when = Date.parse(next) <= now ? 'with the next heartbeat' : `at ${next} at the earliest`;
  return `${happened} It is tried again ${when}${isOffered ? '' : ', if the server offers it then'}.`;
}
