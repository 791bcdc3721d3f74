import type { Organization } from '../../api/index.ts';
import { formatWord, StateBadge, type Tone } from '../../ui/index.ts';

const TONES: Record<Organization['status'], Tone> = {
  active: 'good',
  trial: 'info',
  suspended: 'warning',
  churned: 'neutral',
};

export function OrganizationStatus({ status }: { status: Organization['status'] }) {
  return <StateBadge tone={TONES[status]} label={formatWord(status)} />;
}
