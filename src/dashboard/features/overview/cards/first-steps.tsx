import { List, Paper, Text, Title } from '@mantine/core';

/** What a new user does first. It is shown until the first device is there. */
export function FirstSteps() {
  return (
    <Paper withBorder p="lg" component="section" aria-label="First steps">
      <Title order={2} size="h4" mb="xs">
        Connect your first machine
      </Title>
      <List type="ordered" spacing="xs" size="sm">
        <List.Item>Add the customer under Organizations, with one site.</List.Item>
        <List.Item>Make a key for the site under Enrollment.</List.Item>
        <List.Item>Run the one line that Enrollment shows on the machine.</List.Item>
      </List>
      <Text size="sm" c="dimmed" mt="sm">
        The machine appears here as soon as its agent is connected.
      </Text>
    </Paper>
  );
}
