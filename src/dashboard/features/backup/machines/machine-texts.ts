import type { FoundMachine, Input } from '../../../api/index.ts';
import type { Tone } from '../../../ui/index.ts';

type State = FoundMachine['state'];
export type MachineAction = Input<'POST /backup/hyperv/vm-state'>['body']['state'];

export const STATES: Readonly<Record<State, { tone: Tone; label: string }>> = {
  running: { tone: 'good', label: 'Running' },
  off: { tone: 'neutral', label: 'Off' },
  paused: { tone: 'warning', label: 'Paused' },
  saved: { tone: 'neutral', label: 'Saved' },
  changing: { tone: 'busy', label: 'Changing' },
  unknown: { tone: 'warning', label: 'Not known' },
};

/** Actions that change the state of a machine, and the states in which each one means something. */
export const ACTIONS: readonly {
  action: MachineAction;
  label: string;
  from: readonly State[];
  /** Asked before, where something can be lost. */
  question?: string;
}[] = [
  { action: 'start', label: 'Start', from: ['off', 'saved'] },
  { action: 'resume', label: 'Resume', from: ['paused'] },
  {
    action: 'stop',
    label: 'Shut down',
    from: ['running'],
    question: 'The operating system of the machine is asked to shut down. Programs that run in it end.',
  },
  { action: 'pause', label: 'Pause', from: ['running'] },
  { action: 'save', label: 'Save', from: ['running', 'paused'] },
  {
    action: 'force_stop',
    label: 'Turn off',
    from: ['running', 'paused', 'changing'],
    question: 'It is like a power cut: what the programs in the machine have not written is lost.',
  },
];

/** Why an action means nothing now. A state that nobody knows refuses nothing. */
export function stateRefusal(state: State, from: readonly State[]): string | undefined {
  return state === 'unknown' || from.includes(state)
    ? undefined
    : `The machine was last seen in the state “${STATES[state].label}”.`;
}
