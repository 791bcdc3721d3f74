import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import {
  chooseRelease,
  currentRelease,
  componentFolder,
  releaseFolder,
} from '../agent/os/releases/layout.ts';
import {
  installedVersions,
  afterHealthy,
  afterRollback,
  changeProven,
  provenReleases,
} from '../agent/os/releases/installed-release.ts';
import {
  recordFailure,
  forgetFailure,
  removeAttempt,
  removeTrial,
  type Trial,
  writeTrial,
  putStatus,
  note,
  type UpgradeStep,
} from '../agent/os/releases/upgrade-files.ts';
import { type UpdatePhase, UpgradableComponent, shortened } from '../protocol/index.ts';
import { EMBEDDED } from './agent-script.ts';
import { endObservation, observe } from './observation.ts';

/**
 * What happens at the end of a trial, or if a release is rolled back later. The decision is written first; every later
 * step can be repeated, and is repeated at the next start until the file of the trial is gone.
 */
export interface Settling {
  programs: string;
  dataDir: string;
}

const step = ({ dataDir }: Settling, trial: Trial, name: UpgradeStep, detail?: string) =>
  note(dataDir, {
    step: name,
    component: trial.component,
    version: trial.version,
    attemptId: trial.attemptId,
    ...(detail === undefined ? {} : { detail }),
  });

export async function decideHealthy(place: Settling, trial: Trial): Promise<void> {
  const decided: Trial = { ...trial, verdict: { is: 'healthy' } };
  await writeTrial(place.dataDir, decided);
  step(place, trial, 'healthy');
  await carryOut(place, decided);
}

export async function decideRollback(
  place: Settling,
  trial: Trial,
  { code, message }: { code: string; message: string },
): Promise<void> {
  const decided: Trial = { ...trial, verdict: { is: 'rolled_back', code, message } };
  await writeTrial(place.dataDir, decided);
  step(place, trial, 'rolling_back', code);
  await carryOut(place, decided);
}

/** Carries out the verdict, from the beginning. */
export async function carryOut(place: Settling, trial: Trial): Promise<void> {
  const { verdict } = trial;
  if (verdict?.is === 'healthy') await settle(place, trial);
  if (verdict?.is === 'rolled_back') await rollBack(place, trial, verdict);
}

async function settle(place: Settling, trial: Trial): Promise<void> {
  const { dataDir, programs } = place;
  const { component, version } = trial;
  await changeProven(dataDir, component, (proven) => afterHealthy(proven, version));
  step(place, trial, 'proven');
  // An agent was switched before its trial; a watchdog is switched now.
  if ((await currentRelease(programs, component)) !== version) {
    await chooseRelease(programs, component, version);
    step(place, trial, 'switched');
  }
  await forgetFailure(dataDir, trial.sha256);
  if (component === 'agent') await observe(dataDir, trial, trial.from ?? EMBEDDED);
  await putStatus(dataDir, statusOf(trial, 'completed'));
  await removeAttempt(dataDir);
  await removeTrial(dataDir);
  step(place, trial, 'settled');
}

async function rollBack(
  place: Settling,
  trial: Trial,
  { code, message }: { code: string; message: string },
): Promise<void> {
  const { dataDir, programs } = place;
  await chooseRelease(programs, trial.component, trial.from ?? undefined);
  step(place, trial, 'switched_back');
  await changeProven(dataDir, trial.component, (proven) => afterRollback(proven, trial.version));
  await endObservation(dataDir, trial);
  const { sha256, component, version, attemptId } = trial;
  const isTemporary = code === 'INTERRUPTED';
  const failure = { sha256, component, version, attemptId, code, message, isTemporary };
  const wait = await recordFailure(dataDir, failure);
  await putStatus(dataDir, {
    ...statusOf(trial, 'rolled_back'),
    code,
    error: shortened(message, 2000),
    ...wait,
  });
  await removeAttempt(dataDir);
  await removeTrial(dataDir);
  step(place, trial, 'rolled_back', code);
}

export function statusOf(
  { component, version, fromVersion, attemptId }: Trial,
  phase: UpdatePhase,
): { component: string; targetVersion: string; phase: UpdatePhase; fromVersion: string; attemptId: string } {
  return { component, targetVersion: version, phase, fromVersion, attemptId };
}

/**
 * Removes unneeded releases: all except the current one, the running one, and the last healthy one. The agent installs
 * nothing at this time, so none of them is new.
 */
export async function removeOthers(
  { programs, dataDir }: Settling,
  component: UpgradableComponent,
  running: string | undefined,
): Promise<void> {
  const { healthy } = await provenReleases(dataDir, component);
  const current = await currentRelease(programs, component);
  const previous = healthy.find((version) => version !== current && version !== running);
  for (const version of await installedVersions(programs, component)) {
    if ([current, running, previous].includes(version)) continue;
    await rm(releaseFolder(programs, component, version), { recursive: true, force: true });
  }
}

/** Removes the files of an interrupted installation. */
export async function removeParts(programs: string): Promise<void> {
  for (const component of UpgradableComponent.options) {
    const folder = componentFolder(programs, component);
    for (const name of await readdir(folder).catch(() => [])) {
      if (!/\.(part|draft|old)$/.test(name)) continue;
      // On Windows, a program that still runs stays until the next start.
      await rm(path.join(folder, name), { recursive: true, force: true }).catch(() => {});
    }
  }
}
