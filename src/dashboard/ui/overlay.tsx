import {
  Drawer as MantineDrawer,
  Modal as MantineModal,
  type DrawerProps,
  type ModalProps,
  getDefaultZIndex,
  Kbd,
  Table,
} from '@mantine/core';
import { useEffect, useLayoutEffect, useRef, type ReactNode } from 'react';

/** The open overlays of the page, the newest at the end. */
const overlays: { close: () => void }[] = [];

function onKeyDown({ key, isComposing, target }: KeyboardEvent): void {
  if (key !== 'Escape' || isComposing) return;
  // The list of a field and a menu close by themselves first.
  if (target instanceof Element && target.getAttribute('data-mantine-stop-propagation') === 'true') return;
  overlays.at(-1)?.close();
}

/**
 * Escape closes the overlay that was opened last, and nothing beneath it: by themselves, Mantine's dialogs would all
 * close at once if one asks for a second factor over another.
 */
export function useEscape(isOpen: boolean, close: () => void): void {
  const latest = useRef(close);
  useLayoutEffect(() => {
    latest.current = close;
  });
  useEffect(() => {
    if (!isOpen) return undefined;
    const overlay = { close: () => latest.current() };
    if (overlays.length === 0) window.addEventListener('keydown', onKeyDown, { capture: true });
    overlays.push(overlay);
    return () => {
      overlays.splice(overlays.indexOf(overlay), 1);
      if (overlays.length === 0) window.removeEventListener('keydown', onKeyDown, { capture: true });
    };
  }, [isOpen]);
}

const nothing = () => {};

/** Mantine's, of which Escape closes only the one on top. */
export function Modal({ closeOnEscape = true, ...props }: ModalProps) {
  useEscape(props.opened, closeOnEscape ? props.onClose : nothing);
  return <MantineModal {...props} closeOnEscape={false} />;
}

/** Mantine's at the right of the page, of which Escape closes only the one on top. */
export function Drawer({ closeOnEscape = true, ...props }: DrawerProps) {
  useEscape(props.opened, closeOnEscape ? props.onClose : nothing);
  return <MantineDrawer position="right" {...props} closeOnEscape={false} />;
}

/** A drawer with the details of the row that is open, if one is. */
export function DetailsDrawer<Opened extends string | object>({
  opened,
  onClose,
  title,
  size = 'lg',
  children,
}: {
  opened: Opened | undefined;
  onClose: () => void;
  title: string;
  size?: string;
  children: (opened: Opened) => ReactNode;
}) {
  return (
    <Drawer opened={opened !== undefined} onClose={onClose} size={size} title={title}>
      {opened !== undefined && children(opened)}
    </Drawer>
  );
}

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
