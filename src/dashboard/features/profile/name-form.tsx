import { Alert, Button, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { call } from '../../api/index.ts';
import { readMe, useMe } from '../../session/index.ts';
import { Failure, useSubmit } from '../../ui/index.ts';

export function NameForm() {
  const me = useMe();
  const [name, setName] = useState(me.user.name);
  const [isSaved, setSaved] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    setSaved(false);
    await call('PATCH /users/me', { body: { name } });
    await readMe();
    setSaved(true);
  });
  return (
    <form onSubmit={onSubmit}>
      <Stack align="flex-start">
        <TextInput
          label="Name"
          required
          w="100%"
          autoComplete="name"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={faults['name']}
          description={me.user.email}
        />
        {failure !== undefined && <Failure error={failure} />}
        {isSaved && <Alert color="teal">Your name is saved.</Alert>}
        <Button type="submit" loading={isBusy}>
          Save
        </Button>
      </Stack>
    </form>
  );
}
