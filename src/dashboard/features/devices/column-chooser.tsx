import { ActionIcon, Button, Checkbox, Group, Popover, Stack } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconColumns } from '@tabler/icons-react';
import { useEffect, useRef } from 'react';
import { DEFAULT_COLUMNS } from './device-columns.tsx';

/** Which columns the table has, and in which order. */
export function ColumnChooser({
  all,
  visible,
  onOpen,
  onChange,
}: {
  all: readonly { id: string; header: string }[];
  visible: readonly string[];
  onOpen: () => void;
  onChange: (visible: readonly string[]) => void;
}) {
  const shown = visible.flatMap((id) => all.find((column) => column.id === id) ?? []);
  const hidden = all.filter(({ id }) => !visible.includes(id));
  const list = useRef<HTMLDivElement>(null);
  /** The control that was used last. A row that changes its place is drawn anew and would lose the focus. */
  const used = useRef<{ id: string; control: string; before: readonly string[] }>(undefined);
  useEffect(() => {
    if (used.current === undefined || used.current.before === visible) return;
    const { id, control } = used.current;
    used.current = undefined;
    const row = list.current?.querySelector(`[data-column="${CSS.escape(id)}"]`);
    // At an end of the list, the arrow that led there is disabled.
    const found = row?.querySelector<HTMLElement>(`${control}:enabled`) ?? row?.querySelector('input');
    found?.focus({ preventScroll: true });
  }, [visible]);
  const move = (id: string, by: -1 | 1) => {
    const ids = shown.map((column) => column.id);
    const place = ids.indexOf(id);
    const [moved, other] = [ids[place], ids[place + by]];
    if (moved === undefined || other === undefined) return;
    ids[place] = other;
    ids[place + by] = moved;
    used.current = { id, control: `[data-move="${by}"]`, before: visible };
    onChange(ids);
  };
  const toggle = (id: string, isOn: boolean) => {
    const ids = isOn ? [...visible, id] : visible.filter((each) => each !== id);
    used.current = { id, control: 'input', before: visible };
    onChange(ids.length === 0 ? DEFAULT_COLUMNS : ids);
  };
  return (
    <Popover position="bottom-end" width={250} shadow="md" trapFocus onOpen={onOpen}>
      <Popover.Target>
        <Button variant="default" leftSection={<IconColumns size={14} aria-hidden />}>
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="xs" aria-label="Columns of the table">
        <Stack ref={list} gap={2} mah="60vh" style={{ overflow: 'auto' }}>
          {shown.map(({ id, header }, place) => (
            <Group key={id} data-column={id} gap={2} justify="space-between" wrap="nowrap">
              <Checkbox
                label={header}
                checked
                py={2}
                onChange={(event) => toggle(id, event.currentTarget.checked)}
              />
              <Group gap={0} wrap="nowrap">
                <ActionIcon
                  size="sm"
                  variant="subtle"
                  color="gray"
                  aria-label={`Move ${header} to the left`}
                  data-move={-1}
                  disabled={place === 0}
                  onClick={() => move(id, -1)}
                >
                  <IconArrowUp size={14} />
                </ActionIcon>
                <ActionIcon
                  size="sm"
                  variant="subtle"
                  color="gray"
                  aria-label={`Move ${header} to the right`}
                  data-move={1}
                  disabled={place === shown.length - 1}
                  onClick={() => move(id, 1)}
                >
                  <IconArrowDown size={14} />
                </ActionIcon>
              </Group>
            </Group>
          ))}
          {hidden.map(({ id, header }) => (
            <Group key={id} data-column={id}>
              <Checkbox
                label={header}
                checked={false}
                py={2}
                onChange={(event) => toggle(id, event.currentTarget.checked)}
              />
            </Group>
          ))}
        </Stack>
        <Button variant="subtle" size="compact-xs" mt={4} onClick={() => onChange(DEFAULT_COLUMNS)}>
          Reset
        </Button>
      </Popover.Dropdown>
    </Popover>
  );
}
