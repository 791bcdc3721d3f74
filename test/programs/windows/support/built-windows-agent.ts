import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { assetNames, buildAgent } from '../../../../src/packaging/build-agent.ts';
import type { BuiltAgent } from '../../../support/built-agent.ts';

const built = new Map<string, Promise<BuiltAgent>>();

/** The agent for Windows as `npm run build:agent` makes it, under this version; each is built once for this process. */
export function builtWindowsAgent(version: string): Promise<BuiltAgent> {
  const known = built.get(version);
  if (known !== undefined) return known;
  const building = build(version);
  built.set(version, building);
  return building;
}

async function build(version: string): Promise<BuiltAgent> {
  const folder = mkdtempSync(path.join(tmpdir(), 'muster-windows-agent-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const lines: string[] = [];
  const { failed } = await buildAgent({
    platforms: ['windows-x64'],
    out: folder,
    versions: { agent: version, watchdog: version },
    report: (line) => lines.push(line),
  });
  if (failed.length > 0) throw new Error(lines.join('\n'));
  const names = assetNames('windows-x64');
  return { folder, program: path.join(folder, names.watchdog), script: path.join(folder, names.agent) };
}
