import { KeysDialog } from '../../ui/index.ts';

const KEYS: [string[], string][] = [
  [['Ctrl', 'K'], 'Search devices, pages and actions'],
  [['?'], 'Show this list'],
  [['/'], 'Go to the search field of the page'],
  [['j', 'k'], 'Next and previous row of a table'],
  [['Enter'], 'Open the row'],
  [['Space'], 'Select the row'],
  [['Esc'], 'Close a dialog or a panel'],
];

export const KeyboardHelp = (props: { opened: boolean; onClose: () => void }) => (
  <KeysDialog title="Keys" keys={KEYS} {...props} />
);
