import type { Script } from '../../api/index.ts';
import { SYSTEM_NAMES } from '../../ui/index.ts';

export const LANGUAGES = ['bash', 'powershell', 'python'] as const satisfies readonly Script['language'][];
export const LANGUAGE_NAMES: Record<Script['language'], string> = {
  bash: 'Bash',
  powershell: 'PowerShell',
  python: 'Python',
};
export const SYSTEMS = ['windows', 'macos', 'linux'] as const satisfies readonly Script['osTypes'][number][];

export const systemsText = ({ osTypes }: Pick<Script, 'osTypes'>): string =>
  osTypes.length === 0 ? 'Any system' : osTypes.map((system) => SYSTEM_NAMES[system]).join(', ');
