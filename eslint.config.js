// The rules that find faults rather than tastes; `make check` runs them over app/.
const browser = {
  CSS: "readonly", CustomEvent: "readonly", Element: "readonly", PopStateEvent: "readonly", getSelection: "readonly",
  Event: "readonly", HTMLElement: "readonly", KeyboardEvent: "readonly",
  MutationObserver: "readonly", ResizeObserver: "readonly", URL: "readonly", URLSearchParams: "readonly",
  clearInterval: "readonly", clearTimeout: "readonly", console: "readonly", crypto: "readonly", document: "readonly",
  getComputedStyle: "readonly", history: "readonly", localStorage: "readonly", location: "readonly",
  navigator: "readonly", performance: "readonly", queueMicrotask: "readonly", requestAnimationFrame: "readonly",
  sessionStorage: "readonly", setInterval: "readonly", setTimeout: "readonly", structuredClone: "readonly",
  window: "readonly", fetch: "readonly",
};

module.exports = [
  {
    files: ["app/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error", "constructor-super": "error", "eqeqeq": "error", "for-direction": "error",
      "getter-return": "error", "no-async-promise-executor": "error", "no-class-assign": "error",
      "no-compare-neg-zero": "error", "no-cond-assign": "error", "no-const-assign": "error",
      "no-constant-condition": "error", "no-dupe-args": "error", "no-dupe-class-members": "error",
      "no-dupe-else-if": "error", "no-dupe-keys": "error", "no-duplicate-case": "error", "no-empty": "error",
      "no-eval": "error", "no-fallthrough": "error", "no-func-assign": "error", "no-implied-eval": "error",
      "no-import-assign": "error", "no-inner-declarations": "error", "no-loss-of-precision": "error",
      "no-redeclare": "error", "no-self-assign": "error", "no-self-compare": "error", "no-setter-return": "error",
      "no-shadow-restricted-names": "error", "no-this-before-super": "error", "no-undef": "error",
      "no-unreachable": "error", "no-unsafe-finally": "error", "no-unsafe-negation": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }], "no-use-before-define": ["error", { functions: false }],
      "no-var": "error", "prefer-const": "error", "use-isnan": "error", "valid-typeof": "error",
    },
  },
  {
    // The components put outbox.js in front of their own script: one file once it is in the browser.
    files: ["app/components/judging/outbox.js"],
    languageOptions: { sourceType: "script" },
    rules: { "no-unused-vars": ["error", { vars: "local", argsIgnorePattern: "^_" }] },
  },
  {
    files: ["app/components/judging/judge.js", "app/components/judging/question_labels.js"],
    languageOptions: {
      globals: { Outbox: "readonly", labelsOf: "readonly", liveEvents: "readonly", marked: "readonly", node: "readonly", isNotAnEvent: "readonly" },
    },
  },
];
