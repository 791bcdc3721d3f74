import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { assetNames, type BuildRequest, buildAgent, isOwnPlatform } from '../../src/packaging/build-agent.ts';
import { isPlatform, PLATFORMS } from '../../src/packaging/runtimes.ts';

/** Names the folder of the agent that the test runner has built, to the test processes. */
export const BUILT_AGENT_VARIABLE = 'MUSTER_TEST_AGENT';

export interface BuiltAgent {
  folder: string;
  /** The executable. */
  program: string;
  script: string;
}

const platform = Object.keys(PLATFORMS)
  .filter(isPlatform)
  .find((name) => isOwnPlatform(name));

/** Builds the agent for this machine as `npm run build:agent` does, into a folder of its own. */
export async function buildOwnAgent(versions: BuildRequest['versions'] = {}): Promise<BuiltAgent> {
  if (platform === undefined) throw new Error('The agent cannot be built for this machine.');
  const folder = mkdtempSync(path.join(tmpdir(), 'muster-built-agent-'));
  const lines: string[] = [];
  const { failed } = await buildAgent({
    platforms: [platform],
    out: folder,
    versions,
    report: (line) => lines.push(line),
  });
  if (failed.length > 0) {
    rmSync(folder, { recursive: true });
    throw new Error(lines.join('\n'));
  }
  return agentIn(folder);
}

let own: Promise<BuiltAgent> | undefined;

/** The agent as it was built for the run; where a test file is run by itself, it is built once for this process. */
export function builtAgent(): Promise<BuiltAgent> {
  const built = process.env[BUILT_AGENT_VARIABLE];
  if (built !== undefined) return Promise.resolve(agentIn(built));
  own ??= buildOwnAgent().then((agent) => {
    process.once('exit', () => rmSync(agent.folder, { recursive: true, force: true }));
    return agent;
  });
  return own;
}

function agentIn(folder: string): BuiltAgent {
  const names = assetNames(platform ?? 'linux-x64');
  return { folder, program: path.join(folder, names.watchdog), script: path.join(folder, names.agent) };
}
