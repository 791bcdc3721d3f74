import { readFileSync } from 'node:fs';
import path from 'node:path';
import { getAsset, isSea } from 'node:sea';

/** The name of the asset in the executable, and the file beside the entry where there is no executable. */
const ASSET = 'agent';
const BESIDE = 'muster-agent.cjs';

/** How this program is started again: program and arguments. Without an executable, Node needs its entry. */
export function selfCommand(): [string, ...string[]] {
  if (isSea()) return [process.execPath];
  const entry = path.resolve(process.argv[1] ?? '');
  // TypeScript is started by `src/run.mjs`.
  const through = entry.endsWith('.ts') ? [path.join(path.dirname(entry), '../run.mjs')] : [];
  return [process.execPath, ...process.execArgv, ...through, entry];
}

/** The agent's script that came with this program: the last resort, and the first agent of a machine. */
export function embeddedScript(): { text: string; file: string } | undefined {
  if (isSea()) return { text: getAsset(ASSET, 'utf8'), file: path.join(process.execPath, BESIDE) };
  const file = path.join(path.dirname(path.resolve(process.argv[1] ?? '')), BESIDE);
  try {
    return { text: readFileSync(file, 'utf8'), file };
  } catch {
    return undefined;
  }
}
