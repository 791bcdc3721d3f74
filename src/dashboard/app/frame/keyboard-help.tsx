import { Kbd, Modal, Table } from '@mantine/core';

const KEYS: readonly [keys: readonly string[], does: string][] = [
  [['Ctrl', 'K'], 'Search devices, pages and actions'],
  [['?'], 'Show this list'],
  [['/'], 'Go to the search field of the page'],
  [['j', 'k'], 'Next and previous row of a table'],
  [['Enter'], 'Open the row'],
  [['Space'], 'Select the row'],
  [['Esc'], 'Close a dialog or a panel'],
];

export function KeyboardHelp({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal opened={opened} onClose={onClose} title="Keys" centered>
      <Table>
        <Table.Tbody>
          {KEYS.map(([keys, does]) => (
            <Table.Tr key={does}>
              <Table.Td w={140}>
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
