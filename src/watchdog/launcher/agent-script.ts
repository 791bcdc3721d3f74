import { currentRelease } from '../../agent/os/installation/current-release.ts';
import { readScript } from '../../agent/os/installation/installed-release.ts';
import { ownPlatform } from '../../agent/os/installation/layout.ts';
import { floorForStart, provenReleases } from '../../agent/os/installation/proven-releases.ts';
import { keysForStart } from '../../agent/os/installation/trusted-keys.ts';
import { embeddedScript } from './self.ts';

export interface Place {
  programs: string;
  dataDir: string;
}

export interface AgentScript {
  /** The version of an installed release; `undefined` for the script that came with this program. */
  version: string | undefined;
  text: string;
  file: string;
}

/** The word for the script that came with this program, in place of a version. */
export const EMBEDDED = 'embedded';

/** An installed release of the agent, checked. Throws `ReleaseRefused`. */
export async function installedScript({ programs, dataDir }: Place, version: string): Promise<AgentScript> {
  const proven = await provenReleases(dataDir, 'agent');
  const { bytes, file } = await readScript(programs, version, {
    component: 'agent',
    platform: ownPlatform(),
    keys: await keysForStart(dataDir),
    floor: floorForStart(proven, version),
  });
  return { version, text: bytes.toString('utf8'), file };
}

/** The script that a command line runs: the chosen release, else the newest healthy one, else the embedded one. */
export async function bestScript(place: Place, warn: (message: string) => void): Promise<AgentScript> {
  const current = await currentRelease(place.programs, 'agent');
  const { healthy } = await provenReleases(place.dataDir, 'agent');
  for (const version of new Set(current === undefined ? [] : [current, ...healthy])) {
    try {
      return await installedScript(place, version);
    } catch (error) {
      warn(`The agent ${version} is not used: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return shippedScript();
}

export function shippedScript(): AgentScript {
  const embedded = embeddedScript();
  if (embedded === undefined) {
    throw new Error('No agent is installed, and none came with this program (muster-agent.cjs beside it).');
  }
  return { version: undefined, ...embedded };
}
