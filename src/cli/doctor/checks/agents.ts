import { agentVersions } from '../../../features/devices/index.ts';
import { listAllReleases } from '../../../features/releases/index.ts';
import type { Db } from '../../../platform/db/pool.ts';
import { compareVersions, parseVersion } from '../../../platform/semver.ts';
import { type Check, type Finding, ok, skipped, warning } from '../check.ts';

/** Which agents are in use, and how many of them are behind what is promoted for their platform. */
export const agentChecks = (db: Db): Check[] => [{ name: 'agents', run: () => agents(db) }];

const VERSIONS_MAX = 10;

async function agents(db: Db): Promise<Finding> {
  const inUse = await agentVersions(db);
  const total = inUse.reduce((sum, { devices }) => sum + devices, 0);
  if (total === 0) return skipped('No device is enrolled yet.');
  const promoted = new Map(
    (await listAllReleases(db))
      .filter((release) => release.promoted && release.component === 'agent')
      .map(({ os, architecture, version }) => [`${os} ${architecture}`, version]),
  );
  const byVersion = new Map<string, number>();
  let behind = 0;
  for (const { version, os, architecture, devices } of inUse) {
    byVersion.set(version, (byVersion.get(version) ?? 0) + devices);
    if (isBehind(version, promoted.get(`${os} ${architecture}`))) behind += devices;
  }
  const listed = [...byVersion].sort(([, one], [, other]) => other - one);
  const pending = inUse.reduce((sum, each) => sum + each.pending, 0);
  const details = listed.slice(0, VERSIONS_MAX).map(([version, devices]) => `${version}: ${devices} devices`);
  if (listed.length > VERSIONS_MAX) details.push(`and ${listed.length - VERSIONS_MAX} more versions`);
  if (pending > 0) {
    details.push(`${pending} of these devices wait for approval, which is given in the list of devices`);
  }
  if (promoted.size === 0) {
    return { ...ok(`${total} devices are enrolled. No release of the agent is promoted.`), details };
  }
  if (behind === 0) {
    return { ...ok(`${total} devices are enrolled, none behind the promoted release.`), details };
  }
  return {
    ...warning(
      `${behind} of ${total} devices are behind the promoted release.`,
      'They upgrade as their update policies allow; the upgrades page of the dashboard says what each one waits for.',
    ),
    details,
  };
}

function isBehind(version: string, promoted: string | undefined): boolean {
  const [has, wanted] = [parseVersion(version), parseVersion(promoted ?? '')];
  // What is no version was built by hand.
  return has !== undefined && wanted !== undefined && compareVersions(has, wanted) < 0;
}
