//! Configuration files, presets, and the project.

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::Code;

use crate::support::session;
use crate::{compiled, project, project_with, rendered, tree};

cases! {
    InvalidToml a_file_that_is_not_toml_is_shown_where_it_breaks project("[filesystem]\nrw = [\"dist\"\nro = []\n");

    UnknownKey a_misspelt_key_gets_a_suggestion project("[filesystem]\nexcludes = [\"**/*.pem\"]\n");
    UnknownKey a_synonym_of_a_key_gets_the_key project("[filesystem]\ndeny = [\"**/*.pem\"]\n");
    UnknownKey a_key_in_the_wrong_table_gets_the_right_table project("[filesystem]\nrw = []\nnetwork = false\n");
    UnknownKey an_unknown_key_gets_the_list_of_keys project("[filesystem]\ncolour = \"red\"\n");

    WrongType a_quoted_boolean_loses_its_quotes project("network = \"false\"\n");
    WrongType a_lone_path_gets_brackets project("[filesystem]\nexclude = \"**/*.pem\"\n");
    WrongType an_entry_that_is_a_number_gets_both_forms project("[filesystem]\nro = [1]\n");

    InvalidValue a_misspelt_value_gets_a_suggestion
        project("[filesystem]\nrw = [{ path = \"dist\", if-missing = \"creat\" }]\n");
    InvalidValue a_home_is_host_or_private project("[filesystem]\nhome = \"mine\"\n");
    InvalidValue a_base_is_host_or_minimal project("[filesystem]\nbase = \"minimum\"\n");
    WrongType a_home_is_a_string project("[filesystem]\nhome = true\n");
    InvalidValue an_identity_is_host_or_false_or_a_table project("[git]\nidentity = \"me\"\n");
    // SPEC U5
    InvalidValue an_identity_has_an_address project("[git]\nidentity = { name = \"Agent\" }\n");
    // SPEC U5
    InvalidValue an_identity_has_a_name_that_is_not_empty
        project("[git]\nidentity = { name = \" \", email = \"agent@localhost\" }\n");
    // SPEC U5
    InvalidValue an_identity_has_no_control_characters
        project("[git]\nidentity = { name = \"Agent\\nSmith\", email = \"agent@localhost\" }\n");
    InvalidValue an_identity_has_a_maximum_length
        project(&format!("[git]\nidentity = {{ name = \"A\", email = \"{}\" }}\n", "a".repeat(1001)));
    WrongType an_identity_is_not_true project("[git]\nidentity = true\n");
    WrongType a_name_of_an_identity_is_a_string project("[git]\nidentity = { name = 7, email = \"a@localhost\" }\n");
    UnknownKey an_unknown_key_of_an_identity_gets_the_list
        project("[git]\nidentity = { name = \"A\", email = \"a@x\", mail = \"a@x\" }\n");
    InvalidValue an_entry_without_a_path_needs_one project("[filesystem]\nrw = [{ if-missing = \"create\" }]\n");
    InvalidValue a_pattern_cannot_be_created
        project("[filesystem]\nrw = [{ path = \"out/*\", if-missing = \"create\" }]\n");
    InvalidValue a_preset_without_an_at_sign_gets_one project("[filesystem]\npresets = [\"!caches\"]\n");

    UnknownKey a_variable_directly_in_env_gets_the_table_set project("[env]\nNODE_ENV = \"test\"\n");
    UnknownKey a_key_of_env_in_another_table_gets_the_table_env project("[filesystem]\npass = [\"CI\"]\n");
    UnknownKey a_synonym_of_unset_gets_unset project("[env]\ndeny = [\"AWS_*\"]\n");
    WrongType env_is_a_table project("env = [\"CI\"]\n");
    WrongType the_variables_to_set_are_a_table project("[env]\nset = [\"CI=1\"]\n");
    WrongType a_value_without_quotes_gets_quotes project("[env]\nset = { PORT = 80 }\n");
    WrongType a_lone_variable_gets_brackets project("[env]\npass = \"CI\"\n");
    InvalidValue an_empty_name_names_no_variable project("[env]\nunset = [\"\"]\n");
    InvalidValue a_name_with_an_equals_sign_names_no_variable project("[env]\npass = [\"CI=1\"]\n");
    InvalidValue a_name_with_a_nul_byte_names_no_variable project("[env]\npass = [\"C\\u0000I\"]\n");
    InvalidValue a_name_to_set_with_an_equals_sign_names_no_variable project("[env]\nset = { \"A=b\" = \"c\" }\n");
    InvalidValue a_value_with_a_nul_byte_cannot_be_set project("[env]\nset = { CI = \"a\\u0000b\" }\n");
    InvalidPattern a_pattern_for_variables_must_be_one project("[env]\nunset = [\"AWS_[A\"]\n");
    ReservedVariable variables_of_the_loader_cannot_be_set project("[env]\nset = { LD_PRELOAD = \"./lib.so\" }\n");
    ReservedVariable the_working_directory_cannot_be_set project("[env]\nset = { PWD = \"/\" }\n");

    InvalidPath an_empty_path_in_a_file_is_refused project("[filesystem]\nrw = [\"\"]\n");
    InvalidPath a_path_with_a_nul_byte_is_refused project("[filesystem]\nrw = [\"a\\u0000b\"]\n");
    InvalidPath an_empty_path_in_a_flag_is_refused
        compiled(&tree([]), &Request { rw: vec!["".into()], ..Request::default() });

    UnknownPreset a_misspelt_preset_gets_a_suggestion project("[filesystem]\npresets = [\"@lint/rus\"]\n");
    UnknownPreset an_unknown_preset_gets_the_list_of_presets project("[filesystem]\npresets = [\"!@everything\"]\n");

    InvalidPresetName a_built_in_preset_cannot_be_redefined project("[presets.secrets]\nexclude = [\"vault\"]\n");
    InvalidPresetName a_name_that_cannot_be_referred_to_is_refused project("[presets.\"My Tools\"]\nro = [\"tools\"]\n");

    PresetCycle a_preset_that_includes_itself_is_shown_with_the_cycle project(
        "[filesystem]\npresets = [\"@a\"]\n\n[presets.a]\ninclude = [\"@b\"]\n\n[presets.b]\ninclude = [\"@a\"]\n"
    );

    ContradictoryPreset one_list_cannot_name_and_remove_a_preset
        project("[filesystem]\npresets = [\"@lint/rust\", \"!@lint/rust\"]\n");

    UnreadableConfig a_directory_in_the_place_of_a_file_stops_the_run {
        compiled(&tree(["home/u/proj/.agent-sandbox.toml/"]), &Request::default())
    };
    UnreadableConfig a_file_that_is_not_utf_8_stops_the_run {
        let tree = tree([]);
        std::fs::write(tree.real("home/u/proj/.agent-sandbox.toml"), b"rw = [\"\xff\"]\n").unwrap();
        compiled(&tree, &Request::default())
    };

    MissingConfig a_requested_file_must_exist
        compiled(&tree([]), &Request { config: Some("strict.toml".into()), ..Request::default() });

    // SPEC L8
    NoHome a_home_that_does_not_exist_is_refused {
        let mut session = session("/home/u/proj");
        session.env.insert("HOME".into(), "/nowhere".into());
        rendered(&tree([]).compile_as(&session, &Request::default()).1)
    };
    // SPEC L8
    UnreadableConfig a_link_to_nothing_in_the_place_of_a_file_stops_the_run
        compiled(&tree(["home/u/proj/.agent-sandbox.toml -> gone.toml"]), &Request::default());
    NoHome without_a_home_nothing_runs {
        let mut session = session("/home/u/proj");
        session.env.clear();
        rendered(&tree([]).compile_as(&session, &Request::default()).1)
    };

    InvalidCwd the_working_directory_must_exist
        rendered(&tree([]).compile("/home/u/proj/gone", &Request::default()).1);
    InvalidCwd the_working_directory_must_be_a_directory
        rendered(&tree(["home/u/proj/file"]).compile("/home/u/proj/file", &Request::default()).1);

    // SPEC L6
    UnsafeRoot the_home_is_refused_as_a_project rendered(&tree([]).compile("/home/u", &Request::default()).1);

    ManyRepositories a_folder_with_many_worktrees_is_read_only {
        let tree = tree(["home/u/proj/.git/HEAD = ref: refs/heads/main\n", "home/u/proj/.git/objects/"]);
        for index in 0..501 {
            tree.add(&format!("home/u/proj/.git/worktrees/w{index}/"));
        }
        compiled(&tree, &Request::default())
    };
    // SPEC P11
    ManyRepositories an_index_that_names_too_many_submodules_is_announced {
        let tree = tree(["home/u/proj/.git/HEAD = ref: refs/heads/main\n", "home/u/proj/.git/objects/"]);
        let count: u32 = 100_001;
        let mut index = [b"DIRC\0\0\0\x02".as_slice(), &count.to_be_bytes()].concat();
        for number in 0..count {
            index.extend([0; 24]);
            index.extend(0o160_000_u32.to_be_bytes());
            index.extend([0; 32]);
            index.extend([0, 6]);
            index.extend(format!("{number:06}\0\0\0\0").bytes());
        }
        index.extend([0; 20]);
        std::fs::write(tree.real("home/u/proj/.git/index"), index).unwrap();
        compiled(&tree, &Request::default())
    };
    UnverifiedGitPointer a_git_file_that_nothing_confirms_is_not_trusted project_with(
        [
            "home/u/proj/.git = gitdir: /home/u/other/.git\n",
            "home/u/other/.git/HEAD = ref: refs/heads/main\n",
            "home/u/other/.git/objects/",
            "home/u/other/.git/config = [core]\n\tbare = false\n",
        ],
        "",
    );
}
