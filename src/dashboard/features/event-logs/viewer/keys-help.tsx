import { Kbd, Modal, Table } from '@mantine/core';

const KEYS: readonly [keys: readonly string[], does: string][] = [
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

export function KeysHelp({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal opened={opened} onClose={onClose} title="Keys of the event log" centered>
      <Table aria-label="Keys">
        <Table.Tbody>
          {KEYS.map(([keys, does]) => (
            <Table.Tr key={does}>
              <Table.Td w={120}>
                {keys.map((key) => (
                  <Kbd key={key} mr={4}>
                    {key}
                  </Kbd>
                ))}
              </Table.Td>
              <Table.Td>{does}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
