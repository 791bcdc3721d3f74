import type { SsoProvider } from '../../../api/index.ts';
import { formatWord, StateBadge } from '../../../ui/index.ts';

const TONES = { active: 'good', testing: 'busy', inactive: 'neutral' } as const;

export function ProviderStatus({ status }: { status: SsoProvider['status'] }) {
  return <StateBadge tone={TONES[status]} label={formatWord(status)} />;
}
