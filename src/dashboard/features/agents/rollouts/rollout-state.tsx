import type { AgentRollout } from '../../../api/index.ts';
import { formatWord, StateBadge, type Tone } from '../../../ui/index.ts';

const TONES: Record<AgentRollout['state'], Tone> = {
  running: 'busy',
  paused: 'warning',
  halted: 'bad',
  aborted: 'neutral',
  completed: 'good',
};

export function RolloutState({ state }: { state: AgentRollout['state'] }) {
  return <StateBadge tone={TONES[state]} label={formatWord(state)} />;
}
