import { getDefaultZIndex, Kbd, Modal, Table } from '@mantine/core';

interface KeysDialogProps {
  title: string;
  /** In the order in which they are shown. */
  keys: readonly (readonly [keys: readonly string[], does: string])[];
  opened: boolean;
  onClose: () => void;
}

/** Which keys do what. */
export function KeysDialog({ title, keys, opened, onClose }: KeysDialogProps) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={title}
      centered
      // The key that opens it also works in a dialog, which must not cover it.
      zIndex={getDefaultZIndex('overlay')}
    >
      <Table aria-label="Keys">
        <Table.Tbody>
          {keys.map(([names, does]) => (
            <Table.Tr key={does}>
              <Table.Td w={140}>
                {names.map((name) => (
                  <Kbd key={name} mr={4}>
                    {name}
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
