import { Button, Group, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { send } from '../../api/index.ts';
import { beginSession } from '../../session/index.ts';
import { Failure, focusOnArrival, useSubmit } from '../../ui/index.ts';

export function SecondFactorForm({ tempToken, onBack }: { tempToken: string; onBack: () => void }) {
  const [code, setCode] = useState('');
  const { onSubmit, isBusy, failure } = useSubmit(async () => {
    const { tokens } = await send('POST /auth/mfa/verify', { body: { tempToken, code: code.trim() } });
    await beginSession(tokens);
  });
  return (
    <form onSubmit={onSubmit}>
      <Stack>
        <TextInput
          label="Code"
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
          autoComplete="one-time-code"
          required
          ref={focusOnArrival}
          size="sm"
        />
        {failure !== undefined && <Failure error={failure} />}
        <Group justify="space-between">
          <Button variant="default" size="sm" onClick={onBack}>
            Back
          </Button>
          <Button type="submit" loading={isBusy} size="sm">
            Sign in
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
