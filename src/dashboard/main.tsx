import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '@mantine/spotlight/styles.css';
import './app/app.css';
import { createRoot } from 'react-dom/client';
import { App } from './app/app.tsx';
import { keepFocus } from './app/keep-focus.ts';
import { nameMissingParts } from './app/new-version.ts';
import { openSession } from './session.ts';

const place = document.getElementById('app');
if (place === null) throw new Error('index.html has no element with the id "app".');
nameMissingParts();
keepFocus();
void openSession();
createRoot(place).render(<App />);
