import { ActionIcon, Button, Group, Menu, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconBookmark, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { hasConditions, type LogSearch } from '../model/log-search.ts';
import type { useLogMemory } from './saved-views.ts';

/** Conditions under a name. */
export function ViewsMenu({
  search,
  memory: { memory, saveView, removeView },
  onApply,
}: {
  search: LogSearch;
  memory: ReturnType<typeof useLogMemory>;
  onApply: (search: LogSearch) => void;
}) {
  const [isSaving, saving] = useDisclosure(false);
  const [name, setName] = useState('');
  const save = () => {
    saveView(name.trim(), search);
    setName('');
    saving.close();
  };
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target>
          <Button variant="default" leftSection={<IconBookmark size={14} aria-hidden />}>
            Views
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>Kept in this browser, for this system</Menu.Label>
          {memory.views.length === 0 && (
            <Text size="sm" px="sm" py={4}>
              No view is saved yet.
            </Text>
          )}
          {memory.views.map((view) => (
            <Group key={view.name} gap={0} wrap="nowrap">
              <Menu.Item onClick={() => onApply(view.search)}>{view.name}</Menu.Item>
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={`Delete the view ${view.name}`}
                onClick={() => removeView(view.name)}
              >
                <IconTrash size={14} />
              </ActionIcon>
            </Group>
          ))}
          <Menu.Divider />
          <Menu.Item onClick={saving.open} disabled={!hasConditions(search)}>
            Save as view …
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Modal opened={isSaving} onClose={saving.close} title="Save as view" centered>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() !== '') save();
          }}
        >
          <Stack>
            <TextInput
              label="Name"
              data-autofocus
              maxLength={80}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            <Group justify="flex-end">
              <Button variant="default" onClick={saving.close}>
                Cancel
              </Button>
              <Button type="submit" disabled={name.trim() === ''}>
                Save
              </Button>
            </Group>
          </Stack>
        </form>
      </Modal>
    </>
  );
}
