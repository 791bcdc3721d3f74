import { currentRelease } from '../../agent/os/installation/current-release.ts';
import { provenReleases } from '../../agent/os/installation/proven-releases.ts';
import { EMBEDDED, installedScript, type Place } from '../launcher/agent-script.ts';

/**
 * The scripts of the agent that this machine can start, the preferred one first: the chosen release, those that were
 * healthy before, and the one that came with the executable. Releases that do not hold are left out.
 */
export async function startableScripts(place: Place, warn: (message: string) => void): Promise<string[]> {
  const current = await currentRelease(place.programs, 'agent');
  const { healthy } = await provenReleases(place.dataDir, 'agent');
  const found: string[] = [];
  // Where none was chosen, the embedded script was: it comes first, and nothing else is tried.
  for (const version of new Set(current === undefined ? [] : [current, ...healthy])) {
    try {
      await installedScript(place, version);
      found.push(version);
    } catch (error) {
      warn(`The agent ${version} is not used: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return [...found, EMBEDDED];
}
