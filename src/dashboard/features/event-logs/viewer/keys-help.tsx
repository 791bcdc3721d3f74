import { KeysDialog } from '../../../ui/index.ts';

const KEYS: [string[], string][] = [
  [['/'], 'Find in the loaded entries'],
  [['f'], 'Filter: go to the text that entries must contain'],
  [['j', 'k'], 'Next and previous entry; the arrows do the same'],
  [['Enter'], 'Open the entry'],
  [['Space'], 'Show or hide the repeats of the entry'],
  [['Esc'], 'Close the entry'],
  [['t'], 'Follow new entries; pause and continue'],
  [['e'], 'Export what is shown'],
  [['?'], 'Show this list'],
  [['Ctrl', 'K'], 'Search devices, pages and actions'],
];

export const KeysHelp = (props: { opened: boolean; onClose: () => void }) => (
  <KeysDialog title="Keys of the event log" keys={KEYS} {...props} />
);
