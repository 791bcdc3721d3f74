import os from 'node:os';
import type { OsType } from '../../../protocol/index.ts';

export function osType(): OsType {
  const name = os.platform();
  if (name === 'win32') return 'windows';
  return name === 'darwin' ? 'macos' : 'linux';
}
