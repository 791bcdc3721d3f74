import { ActionIcon, Button, Group, Popover, Text, TextInput } from '@mantine/core';
import { IconBookmark, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { z } from 'zod';
import { useMe } from '../../../session/index.ts';
import { useRemembered } from './remembered.ts';

/** A view is a name for an address of this page, without its path. */
const View = z.object({ name: z.string(), search: z.record(z.string(), z.unknown()) });
const Views = z.array(View).max(100);

/** What the person looks at often, remembered by this browser. */
export function SavedViews({
  current,
  onOpen,
}: {
  current: Readonly<Record<string, unknown>>;
  onOpen: (search: Record<string, unknown>) => void;
}) {
  const { user } = useMe();
  const [stored, setViews] = useRemembered(`muster-device-views-${user.id}`, Views);
  const [name, setName] = useState('');
  const [isOpen, setOpen] = useState(false);
  const views = stored ?? [];
  const wanted = name.trim();
  const save = () => {
    if (wanted === '') return;
    const search = Object.fromEntries(Object.entries(current).filter(([, value]) => value !== undefined));
    setViews([...views.filter((view) => view.name !== wanted), { name: wanted, search }]);
    setName('');
  };
  return (
    <Popover position="bottom-end" width={280} shadow="md" trapFocus opened={isOpen} onChange={setOpen}>
      <Popover.Target>
        <Button
          variant="default"
          leftSection={<IconBookmark size={14} aria-hidden />}
          onClick={() => setOpen(!isOpen)}
        >
          Views
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="xs" aria-label="Saved views">
        {views.length === 0 && (
          <Text size="xs" mb="xs">
            A view keeps the search, the facets, the filter and the order under a name, in this browser.
          </Text>
        )}
        {views.map((view) => (
          <Group key={view.name} gap={0} wrap="nowrap">
            <Button
              variant="subtle"
              color="gray"
              justify="flex-start"
              flex={1}
              onClick={() => {
                setOpen(false);
                onOpen(view.search);
              }}
            >
              {view.name}
            </Button>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Delete the view ${view.name}`}
              onClick={() => setViews(views.filter((each) => each.name !== view.name))}
            >
              <IconTrash size={14} />
            </ActionIcon>
          </Group>
        ))}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            save();
          }}
        >
          <Group gap={4} mt={4} wrap="nowrap">
            <TextInput
              flex={1}
              aria-label="Name of the view"
              placeholder="Name of this view"
              maxLength={60}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <Button type="submit" disabled={wanted === ''}>
              {views.some((view) => view.name === wanted) ? 'Replace' : 'Save'}
            </Button>
          </Group>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
